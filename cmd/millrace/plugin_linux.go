package main

import (
	"os"
	"path/filepath"

	"github.com/millrace/millrace/network/pods"
)

// plugin makes the program a CNI plugin if a container runtime called it by that name, and returns its exit code.
func plugin() (code int, called bool) {
	if filepath.Base(os.Args[0]) != pods.PluginName {
		return 0, false
	}
	return pods.Plugin(os.Getenv, os.Stdin, os.Stdout), true
}
