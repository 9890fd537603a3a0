raise SystemExit("error: only the metadata of the package is in this folder: build it by tools/build_packages.py.")
