// Package language lets the built-in kubectl load translations only where somebody wants another language than English.
//
// kubectl's packages translate their texts while they are initialized, and for that unpack a table of all texts: a third of what a
// start of the whole program takes. kubectl asks for this package to be initialized before its own: Go initializes packages that
// depend on nothing that is missing in the order of their paths, and this one's is the smaller.
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

// foreign tells whether the environment wants texts that are not in English.
func foreign(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if wanted := getenv(name); wanted != "" {
			return wanted != "C" && wanted != "POSIX" && !strings.HasPrefix(wanted, "C.") && !strings.HasPrefix(wanted, "en")
		}
	}
	return false
}
