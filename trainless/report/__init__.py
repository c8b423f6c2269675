"""What is shown to people: pictures, pages and tables."""
