package podspec

import (
	"path"
	"strings"
)

// descendingPath requires a relative path that does not leave its starting point.
func (f *findings) descendingPath(p fieldPath, target string) {
	if path.IsAbs(target) {
		f.invalid(p, target, "must be a relative path")
	}
	f.noBacksteps(p, target)
}

func (f *findings) noBacksteps(p fieldPath, target string) {
	if hasBacksteps(target) {
		f.invalid(p, target, "must not contain '..'")
	}
}

func hasBacksteps(target string) bool {
	if !strings.Contains(target, "..") {
		return false
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(target, `\`, "/"), "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// filePath requires a path of a file in a volume: below it, and none of the names that the kubelet reserves.
func (f *findings) filePath(p fieldPath, target string) {
	f.descendingPath(p, target)
	if strings.HasPrefix(target, "..") && !strings.HasPrefix(target, "../") && target != ".." {
		f.invalid(p, target, "must not start with '..'")
	}
}
