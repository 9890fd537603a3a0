"""The words of `manage.py pairing`, one file for each kind; what they share is in words.py."""
