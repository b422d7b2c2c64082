"""Responses of a voice session: written, spoken while they are written, and heard."""
