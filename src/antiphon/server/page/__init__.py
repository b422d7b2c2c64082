"""The web page at `/`: its files, its content security policy, and the server's status for it."""
