"""The commands, one file each: the first line of a file is what help says of it."""
