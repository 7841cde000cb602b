//go:build !linux

package furnish

import (
	"context"
	"os"
)

// system has no mount operations: only Linux runs containers.
type system struct{}

func (system) memory(string, int64) error                                     { return ErrUnsupported }
func (system) secret(string) error                                            { return ErrUnsupported }
func (system) mounted(string) bool                                            { return false }
func (system) bind(*os.File, string) error                                    { return ErrUnsupported }
func (system) device(context.Context, string, string, string, []string) error { return ErrUnsupported }
func (system) unmount(string) error                                           { return nil }

func openBeneath(directory, below string) (*os.File, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(below)
}
