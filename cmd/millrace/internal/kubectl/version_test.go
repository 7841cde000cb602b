package kubectl

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// kubectlVersion runs `kubectl version` against a server with the given version.
func kubectlVersion(t *testing.T, server string, args ...string) (out, warnings string, err error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(version.Info{Major: "1", GitVersion: server})
	}))
	defer s.Close()
	config := genericclioptions.NewConfigFlags(false)
	config.APIServer, config.CacheDir = &s.URL, new(t.TempDir())
	c := kubectlVersionCommand(config)
	c.Flags().Bool("warnings-as-errors", false, "")
	var o, e bytes.Buffer
	c.SetOut(&o)
	c.SetErr(&e)
	c.SetArgs(args)
	c.SilenceUsage, c.SilenceErrors = true, true
	err = c.Execute()
	return o.String(), e.String(), err
}

func TestTheVersionOfKubectlCanBeParsed(t *testing.T) {
	out, warnings, err := kubectlVersion(t, "v1.37.0", "-o", "json")
	if err != nil || warnings != "" {
		t.Errorf("%v, %q", err, warnings)
	}
	var v versions
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	parsed, err := utilversion.ParseSemantic(v.Client.GitVersion)
	if err != nil || parsed.Major() != 1 || parsed.Minor() < 37 || v.Client.Major != "1" || v.Client.Minor == "" {
		t.Errorf("the client's version is %+v (%v)", v.Client, err)
	}
	if v.Server == nil || v.Server.GitVersion != "v1.37.0" {
		t.Errorf("the server's version is %+v", v.Server)
	}
}

func TestKubectlWarnsAboutAServerThatIsTooOldOrTooNew(t *testing.T) {
	for server, warns := range map[string]bool{"v1.37.5": false, "v1.36.0": false, "v1.38.1+k3s1": false, "v1.35.0": true, "v1.40.0": true, "v2.37.0": true} {
		out, warnings, err := kubectlVersion(t, server)
		if err != nil || strings.Contains(warnings, "exceeds the supported minor version skew") != warns {
			t.Errorf("%s: %q (%v)", server, warnings, err)
		}
		if !strings.Contains(out, "Client Version: v1.") || !strings.HasSuffix(out, "Server Version: "+server+"\n") {
			t.Errorf("%s: it prints %q", server, out)
		}
		if _, _, err := kubectlVersion(t, server, "--warnings-as-errors"); (err != nil) != warns {
			t.Errorf("%s: as errors: %v", server, err)
		}
	}
}

func TestKubectlPrintsItsOwnVersionWithoutAServer(t *testing.T) {
	out, _, err := kubectlVersion(t, "v1.30.0", "--client")
	if err != nil || strings.Contains(out, "Server") {
		t.Errorf("%q (%v)", out, err)
	}
	if _, _, err := kubectlVersion(t, "v1.37.0", "-o", "table"); err == nil {
		t.Error("an unknown form of output is taken")
	}
}
