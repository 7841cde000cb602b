//go:build !linux

package proc

import (
	"errors"
	"syscall"
	"time"
)

// CPU is not supported here.
func CPU(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// MemoryOf is not supported here.
func MemoryOf(int) (Memory, error) { return Memory{}, errors.ErrUnsupported }

// ResetPeak is not supported here.
func ResetPeak(int) error { return errors.ErrUnsupported }

// DieWithParent is not supported here.
func DieWithParent() *syscall.SysProcAttr { return nil }
