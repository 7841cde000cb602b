package standin

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestAStandInIsDistinguishedFromAnEtcd(t *testing.T) {
	one := httptest.NewServer(&standIn{})
	defer one.Close()
	real := httptest.NewServer(http.NotFoundHandler())
	defer real.Close()
	claim := func(url string) (bool, func(), error) { return Claim(t.Context(), []string{url}) }
	if isOne, _, err := claim(real.URL); isOne || err != nil {
		t.Errorf("an etcd: %v, %v", isOne, err)
	}
	if isOne, _, err := claim("http://127.0.0.1:1"); isOne || err != nil {
		t.Errorf("nobody: %v, %v", isOne, err)
	}
	isOne, release, err := claim(one.URL)
	if !isOne || err != nil {
		t.Fatalf("a stand-in: %v, %v", isOne, err)
	}
	if isOne, _, err := claim(one.URL); !isOne || err == nil {
		t.Errorf("a stand-in that is claimed: %v, %v", isOne, err)
	}
	release()
	for deadline := time.Now().Add(time.Minute); ; { // the stand-in notices the end by the closed connection
		isOne, release, err := claim(one.URL)
		if isOne && err == nil {
			release()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after its release: %v, %v", isOne, err)
		}
	}
	res, err := http.Get(one.URL + "/v3/kv/range")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNotImplemented {
		t.Errorf("data is asked for: %v", res.Status)
	}
}
