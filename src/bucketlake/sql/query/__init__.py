"""SELECT: tables found and bound, and what is pushed to their scans."""
