"""What the commands of all rooms are built from."""
