package podspec

import (
	"k8s.io/apimachinery/pkg/util/validation"
)

// Names are first checked byte by byte. Regular expressions are used only to find the message for an invalid name.

func label(s string) []string {
	if isLabel(s) {
		return nil
	}
	return validation.IsDNS1123Label(s)
}

func isLabel(s string) bool {
	if len(s) == 0 || len(s) > validation.DNS1123LabelMaxLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if !isLower(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

func subdomain(s string) []string {
	if isLabel(s) {
		return nil
	}
	return validation.IsDNS1123Subdomain(s)
}

func qualifiedName(s string) []string {
	if isQualified(s) {
		return nil
	}
	return validation.IsQualifiedName(s)
}

// isQualified accepts common names: a simple word, optionally after a prefix of simple labels. For other names it
// returns false.
func isQualified(s string) bool {
	name := s
	for i := range len(s) {
		if s[i] == '/' {
			if i > validation.DNS1123LabelMaxLength || !isDotted(s[:i]) {
				return false
			}
			name = s[i+1:]
			break
		}
	}
	return isWord(name)
}

func isDotted(s string) bool {
	start := 0
	for i := range len(s) {
		if s[i] == '.' {
			if !isLabel(s[start:i]) {
				return false
			}
			start = i + 1
		}
	}
	return isLabel(s[start:])
}

func isWord(s string) bool {
	if len(s) == 0 || len(s) > validation.LabelValueMaxLength || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool { return isLower(c) || c >= 'A' && c <= 'Z' }

func labelValue(s string) []string {
	if s == "" || isWord(s) {
		return nil
	}
	return validation.IsValidLabelValue(s)
}
