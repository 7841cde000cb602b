package millrace_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
)

func TestAPIsAreTurnedOffAndOn(t *testing.T) {
	for _, one := range []struct {
		config  map[string]string
		on, off []string
	}{
		{nil, []string{"/apis/apps/v1", "/apis/autoscaling/v1"}, nil},
		{nil, []string{"/apis/resource.k8s.io/v1"}, []string{"/apis/resource.k8s.io/v1beta1", "/apis/resource.k8s.io/v1beta2/resourceslices", "/apis/storagemigration.k8s.io/v1beta1"}},
		{map[string]string{"resource.k8s.io/v1beta1": "true"},
			[]string{"/apis/resource.k8s.io/v1beta1", "/apis/resource.k8s.io/v1beta1/resourceslices", "/openapi/v3/apis/resource.k8s.io/v1beta1"}, []string{"/apis/resource.k8s.io/v1beta2"}},
		{map[string]string{"api/beta": "true"},
			[]string{"/apis/resource.k8s.io/v1beta2/devicetaintrules", "/apis/certificates.k8s.io/v1beta1/clustertrustbundles", "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations",
				"/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicybindings"}, []string{"/apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolicies"}},
		{map[string]string{"api/all": "true", "resource.k8s.io/v1beta2/resourceclaims": "false"},
			[]string{"/apis/resource.k8s.io/v1beta2/resourceslices"}, []string{"/apis/resource.k8s.io/v1beta2/resourceclaims"}},
		{map[string]string{"apps/v1": "false", "autoscaling/v1": "false"},
			[]string{"/apis/autoscaling", "/apis/autoscaling/v2", "/openapi/v3/apis/autoscaling/v2"},
			[]string{"/apis/apps", "/apis/apps/v1", "/apis/apps/v1/deployments", "/apis/autoscaling/v1", "/apis/autoscaling/v1/horizontalpodautoscalers", "/openapi/v3/apis/apps/v1"}},
		{map[string]string{"apps/v1/deployments": "false"}, []string{"/apis/apps/v1", "/apis/apps/v1/replicasets"}, []string{"/apis/apps/v1/deployments"}},
		{map[string]string{"api/all": "false", "v1": ""}, []string{"/api/v1", "/api/v1/pods"}, []string{"/apis/apps/v1", "/apis/batch/v1/jobs"}},
		{map[string]string{"api/all": "false", "api/ga": "true", "batch/v1": "false"}, []string{"/apis/apps/v1", "/api/v1"}, []string{"/apis/batch/v1"}},
		{map[string]string{"api/ga": "false", "api/v1": "true", "v1": "1"}, []string{"/api/v1"}, []string{"/apis/apps/v1"}},
	} {
		o := alone(millrace.ServingOptions{})
		o.RuntimeConfig = one.config
		c := start(t, o)
		for code, paths := range map[int][]string{http.StatusOK: one.on, http.StatusNotFound: one.off} {
			for _, path := range paths {
				if got, _ := ask(t, c, http.MethodGet, path, ""); got.StatusCode != code {
					t.Errorf("with %v %s is answered with %d", one.config, path, got.StatusCode)
				}
			}
		}
	}
}

func TestDiscoveryAndAPIServicesDoNotShowAnAPIThatIsOff(t *testing.T) {
	o := alone(millrace.ServingOptions{})
	o.RuntimeConfig = map[string]string{"apps/v1": "false", "autoscaling/v1": "false"}
	c := start(t, o)
	groups, err := clientset(t, c).Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	preferred := map[string]string{}
	for _, g := range groups.Groups {
		preferred[g.Name] = g.PreferredVersion.Version
	}
	if _, shown := preferred["apps"]; shown || preferred["autoscaling"] != "v2" {
		t.Errorf("discovery shows %v", preferred)
	}
	if got, _ := ask(t, c, http.MethodGet, "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps", ""); got.StatusCode != http.StatusNotFound {
		t.Errorf("there is an APIService: %d", got.StatusCode)
	}
	// What the server itself uses is not affected.
	if _, err := clientset(t, c).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAPIServicesFollowTheAPIsThatAreOnFromStartToStart(t *testing.T) {
	data := t.TempDir()
	for _, config := range []map[string]string{nil, {"autoscaling/v1": "false"}, nil} {
		o := alone(millrace.ServingOptions{})
		o.Data, o.RuntimeConfig = data, config
		c := start(t, o)
		for version, want := range map[string]bool{"v1.autoscaling": config == nil, "v2.autoscaling": true} {
			got, _ := ask(t, c, http.MethodGet, "/apis/apiregistration.k8s.io/v1/apiservices/"+version, "")
			if there := got.StatusCode == http.StatusOK; there != want {
				t.Errorf("with %v there is %s: %v", config, version, there)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARuntimeConfigurationThatMakesNoSenseIsRefused(t *testing.T) {
	for key, want := range map[string]string{
		"foo=true": "runtime-config invalid key foo", "a/b/c/d=true": "runtime-config invalid key a/b/c/d", "foo/v1=false": "unknown api groups foo/v1",
		"foo/v1/x=true": "unknown api groups foo/v1", "apps/v7=true": "group version apps/v7 that has not been registered",
		"apps/v1=maybe":  `invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`,
		"api/beta=maybe": "invalid value api/beta=maybe", "api/all=false": "invalid runtime-config with only api/all=false",
		"apps/v1beta1=true": "", "extensions/v1beta1=true": "", "apiregistration.k8s.io/v1=true": "",
	} {
		o := alone(millrace.ServingOptions{})
		name, value, _ := strings.Cut(key, "=")
		o.RuntimeConfig = map[string]string{name: value}
		c, err := millrace.Start(t.Context(), o)
		if err == nil {
			c.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
