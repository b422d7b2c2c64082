"""The dialogue of a voice session: hearing, conversation, turn-taking and answers."""
