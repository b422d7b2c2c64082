"""The web page at `/`: its files, the policy that it is served with, and the server's status as it shows it."""
