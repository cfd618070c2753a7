"""What an attacker would try with the published files. One file per attack."""
