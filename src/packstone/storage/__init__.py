"""Where bytes live: the ``FileIO`` seam, its implementations, exclusive publish, process ownership."""
