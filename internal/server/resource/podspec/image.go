package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pullPolicy returns Always for images that may change: those with the tag latest, and those without tag and digest,
// which mean the same. A name that is not a valid image reference has no tag.
func pullPolicy(image string) corev1.PullPolicy {
	name, digest, pinned := strings.Cut(image, "@")
	tag := "latest"
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	} else if pinned {
		tag = ""
	}
	if tag != "latest" || !isRepository(name) || pinned && !isDigest(digest) {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// isRepository reports whether a name has the form [host[:port]/]path.
func isRepository(name string) bool {
	if len(name) > 255 || isBareDigest(name) {
		return false
	}
	if first, rest, found := strings.Cut(name, "/"); found && isHost(first) {
		name = rest
	}
	for part := range strings.SplitSeq(name, "/") {
		if !isPathPart(part) {
			return false
		}
	}
	return true
}

func isBareDigest(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// isHost reports whether the first part of a name is a registry's host and not the beginning of the path.
func isHost(s string) bool {
	if !strings.ContainsAny(s, ".:") && s != "localhost" && strings.ToLower(s) == s {
		return false
	}
	if strings.HasPrefix(s, "[") {
		return strings.Contains(s, "]")
	}
	host, port, hasPort := strings.Cut(s, ":")
	if hasPort && (port == "" || strings.Trim(port, "0123456789") != "") {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; !isLower(c) && !(c >= 'A' && c <= 'Z') && c != '-' {
				return false
			}
		}
	}
	return true
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// isPathPart requires runs of lower-case letters and digits, separated by one period, one or two underscores, or any
// number of hyphens.
func isPathPart(s string) bool {
	between := 0
	for i := range len(s) {
		switch c := s[i]; {
		case isLower(c):
			if run := s[i-between : i]; run != "" && run != "." && run != "_" && run != "__" && strings.Trim(run, "-") != "" {
				return false
			}
			between = 0
		case c == '.' || c == '_' || c == '-':
			if between++; i == between-1 {
				return false
			}
		default:
			return false
		}
	}
	return s != "" && between == 0
}

func isDigest(s string) bool {
	algorithm, hex, found := strings.Cut(s, ":")
	return found && algorithm != "" && len(hex) >= 32 && strings.Trim(hex, "0123456789abcdefABCDEF") == ""
}
