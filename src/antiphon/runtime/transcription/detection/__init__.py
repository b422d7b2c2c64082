"""Where there is speech in a recording, or in sound as it arrives."""
