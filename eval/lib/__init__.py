"""What the folders of eval/ share: running programs, reading them, and making pages of the results."""
