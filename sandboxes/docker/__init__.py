"""Docker: the user's images, through a daemon that runs already."""
