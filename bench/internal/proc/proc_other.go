//go:build !linux

package proc

import (
	"errors"
	"syscall"
	"time"
)

// CPU is not known here.
func CPU(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// MemoryOf is not known here.
func MemoryOf(int) (Memory, error) { return Memory{}, errors.ErrUnsupported }

// ResetPeak is not possible here.
func ResetPeak(int) error { return errors.ErrUnsupported }

// DieWithParent is not possible here.
func DieWithParent() *syscall.SysProcAttr { return nil }
