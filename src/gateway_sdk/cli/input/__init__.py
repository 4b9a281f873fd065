"""What people give: files, standard input, days and currencies, checked before anything is sent."""
