package network

import (
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/network/pods"
)

// Plugin runs the program as a CNI plugin if it was called by that name, and returns the exit code.
func Plugin() (code int, called bool) {
	if name := filepath.Base(os.Args[0]); name != pods.PluginName && name != pods.LoopbackName {
		return 0, false
	}
	return pods.Plugin(os.Getenv, os.Stdin, os.Stdout), true
}
