"""What `manage.py demo` needs beside the control plane itself."""
