//go:build !linux

package etcd

import (
	"errors"
	"os"
)

// takeFiles is not implemented for this operating system.
func takeFiles(string, *member) error { return errors.New("its files cannot be taken back") }

func release(f *os.File) error { return f.Close() }
