// Package language makes the built-in kubectl load translations only if the environment asks for another language than
// English.
//
// kubectl's packages translate their texts during initialization, and unpack a table of all texts for it: a third of
// the time of a start of the whole program. This package must be initialized before kubectl's. Go initializes packages
// whose dependencies are ready in the order of their import paths, and this one's path comes first.
package language

import (
	"os"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

func init() {
	if err := i18n.SetLoadTranslationsFunc(load); err != nil {
		panic(err) // kubectl was initialized first
	}
}

// load loads the translations if the environment names a language.
func load() error {
	if !foreign(os.Getenv) {
		return nil
	}
	return i18n.LoadTranslations("kubectl", nil)
}

// foreign reports whether the environment asks for another language than English.
func foreign(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if wanted := getenv(name); wanted != "" {
			return wanted != "C" && wanted != "POSIX" && !strings.HasPrefix(wanted, "C.") && !strings.HasPrefix(wanted, "en")
		}
	}
	return false
}
