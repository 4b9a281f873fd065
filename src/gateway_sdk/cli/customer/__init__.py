"""The commands `gateway customer create` and `gateway customer revise`."""
