"""Programs that draw the pictures and write the pages of the documentation."""
