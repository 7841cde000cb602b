package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// files are what a machine needs to run the program as a service.
//
//go:embed files
var files embed.FS

// entry is one file of an archive, a package or an image.
type entry struct {
	name string // with slashes
	mode fs.FileMode
	path string // of its content on disk
	text []byte // its content if path is empty
}

// read returns the content.
func (e entry) read() ([]byte, error) {
	if e.path == "" {
		return e.text, nil
	}
	return os.ReadFile(e.path)
}

// own returns one of the embedded files.
func own(file, name string) entry {
	text, err := files.ReadFile("files/" + file)
	if err != nil {
		panic(fmt.Sprintf("%s is embedded: %v", file, err))
	}
	return entry{name: name, mode: 0o644, text: text}
}

// manual returns the manual pages, with names in a directory.
func (r *release) manual(directory string) ([]entry, error) {
	found, err := filepath.Glob(filepath.Join(r.work, "man", "*.1"))
	var out []entry
	for _, p := range found {
		out = append(out, entry{name: path.Join(directory, filepath.Base(p)), mode: 0o644, path: p})
	}
	return out, err
}

// completion returns the completions of a shell.
func (r *release) completion(shell, directory string) entry {
	name := completions[shell]
	return entry{name: path.Join(directory, name), mode: 0o644, path: filepath.Join(r.work, "completions", shell, name)}
}

// document returns a page of the repository.
func (r *release) document(name, directory string) entry {
	return entry{name: path.Join(directory, name), mode: 0o644, path: filepath.Join(r.source, name)}
}
