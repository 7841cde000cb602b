package language

import "testing"

func TestTranslationsAreForOtherLanguagesThanEnglish(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "C.UTF-8"}, false},
		{map[string]string{"LANG": "en_US.UTF-8"}, false},
		{map[string]string{"LANG": "de_DE.UTF-8"}, true},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, false},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "ja_JP.UTF-8"}, true},
	} {
		if got := foreign(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}
