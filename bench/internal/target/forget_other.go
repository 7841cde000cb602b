//go:build !linux

package target

import "errors"

func forgetFiles(string) error { return errors.ErrUnsupported }
