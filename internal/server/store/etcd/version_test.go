package etcd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestVersionsThatLoseEventsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"3.4.24": "3.4.25 or newer", "3.3.27": "3.4.25 or newer", "2.3.8": "3.4.25 or newer", "3.5.0": "3.5.8 or newer", "3.5.7": "3.5.8 or newer",
		"3.4.25": "", "3.4.34": "", "3.5.8": "", "3.5.24": "", "3.6.0": "", "3.7.0-beta.1": "", "": "", "of my own": "",
	} {
		err := checkVersion(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "etcd "+text+" is too old") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOneOldServerOfAClusterIsEnough(t *testing.T) {
	versions := map[string]string{"http://a:2379": "3.6.0", "http://c:2379": "3.4.3"}
	at := func(_ context.Context, endpoint string) (string, error) {
		if text, ok := versions[endpoint]; ok {
			return text, nil
		}
		return "", errors.New("no answer")
	}
	o := Options{Endpoints: []string{"http://a:2379", "http://b:2379", "http://c:2379"}, Logger: slog.New(slog.DiscardHandler)}
	if err := o.checkVersions(t.Context(), at); err == nil || !strings.HasPrefix(err.Error(), "http://c:2379: etcd 3.4.3 is too old") {
		t.Errorf("the check says %v", err)
	}
	versions["http://c:2379"] = "3.6.1"
	if err := o.checkVersions(t.Context(), at); err != nil {
		t.Errorf("the check says %v", err)
	}
}
