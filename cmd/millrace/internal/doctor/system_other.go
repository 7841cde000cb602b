//go:build !linux

package doctor

// ofSystem are the checks of this system.
var ofSystem []check
