"""The engines that Bucketlake must agree with, each in a virtual environment of its own: see install.py."""
