package worker

import (
	"strings"
	"testing"
)

func TestImageNamesAreValidated(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	for _, name := range []string{
		"web", "web:1", "web:v1.2_3-x", "library/web", "localhost/box:1", "localhost:5000/box", "registry.example.org/a/b-c/d__e.f:1@sha256:" + sum,
		"[::1]:5000/box", "Example.ORG/web", "busybox@sha256:" + sum, "sha256:" + sum,
	} {
		if err := checkImageName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, why := range map[string]string{
		"":                      `couldn't parse image name "": invalid reference format`,
		"web::1":                `couldn't parse image name "web::1": invalid reference format`,
		"WEB:1":                 `couldn't parse image name "WEB:1": invalid reference format: repository name (library/WEB) must be lowercase`,
		"example.org/Team/web":  `couldn't parse image name "example.org/Team/web": invalid reference format: repository name (Team/web) must be lowercase`,
		"web:":                  `couldn't parse image name "web:": invalid reference format`,
		"https://example.org/a": `couldn't parse image name "https://example.org/a": invalid reference format`,
		"web 1":                 `couldn't parse image name "web 1": invalid reference format`,
		"web@sha256:12":         `couldn't parse image name "web@sha256:12": invalid reference format`,
		"-web":                  `couldn't parse image name "-web": invalid reference format`,
		sum:                     `couldn't parse image name "` + sum + `": invalid repository name (` + sum + `), cannot specify 64-byte hexadecimal strings`,
	} {
		if err := checkImageName(name); err == nil || err.Error() != why {
			t.Errorf("%s: %v, want %s", name, err, why)
		}
	}
}
