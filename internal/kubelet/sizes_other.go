//go:build !linux

package kubelet

import "errors"

func sizes(string) (memory, disk int64, kernel string) { return 0, 0, "" }

func sameDisk(string, string) bool { return true }

func used(string) (int, error) { return 0, errors.ErrUnsupported }
