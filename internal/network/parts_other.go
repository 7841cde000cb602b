//go:build !linux

package network

import "errors"

func parts(Options) []part {
	return []part{{name: "pods, services and DNS", err: errors.New("it needs a Linux kernel")}}
}
