package access_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// audited adds an audit log with a policy to some options.
func audited(t *testing.T, o millrace.Options, rules string) (millrace.Options, func() []auditv1.Event) {
	t.Helper()
	directory := t.TempDir()
	policy, log := filepath.Join(directory, "policy.yaml"), filepath.Join(directory, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n"+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Audit = millrace.AuditOptions{PolicyFile: policy, Log: millrace.AuditFileOptions{Path: log}}
	return o, func() (events []auditv1.Event) {
		t.Helper()
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var e auditv1.Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			events = append(events, e)
		}
		return events
	}
}

func TestOnlyTheAdministratorIsAMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, events := audited(t, millrace.Options{Listen: "none", Nodes: 2}, "- {level: Metadata}")
		c := start(t, o)
		c.workloads()
		time.Sleep(2 * time.Minute) // in a synctest bubble: takes no time
		synctest.Wait()
		seen := map[string]bool{}
		for _, e := range events() {
			seen[e.User.Username] = true
			if slices.Contains(e.User.Groups, "system:masters") && !strings.HasPrefix(e.UserAgent, "access.test/") {
				t.Errorf("%s %s by %s (%s), a master", e.Verb, e.RequestURI, e.User.Username, e.UserAgent)
			}
		}
		for _, who := range []string{"system:kube-scheduler", "system:kube-controller-manager", "system:node:hollow-0", "system:node:hollow-1",
			"system:serviceaccount:kube-system:deployment-controller", "system:serviceaccount:kube-system:replicaset-controller",
			"system:serviceaccount:kube-system:job-controller", "system:serviceaccount:kube-system:daemon-set-controller"} {
			if !seen[who] {
				t.Errorf("%s has asked for nothing", who)
			}
		}
	})
}

func TestWhatWasRefusedIsWrittenDown(t *testing.T) {
	o, events := audited(t, millrace.Options{Controllers: []string{}, NoScheduler: true}, "- {level: RequestResponse, resources: [{group: '', resources: [configmaps]}]}\n- {level: Metadata}")
	c := start(t, o)
	if _, err := c.as("mallory", "guests").CoreV1().Secrets("default").List(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	if _, err := c.with("wrong").CoreV1().Secrets("default").List(c.ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Fatal(err)
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}, Data: map[string]string{"a": "b"}}
	made, err := c.admin.CoreV1().ConfigMaps("default").Create(c.ctx, m, metav1.CreateOptions{})
	c.must(err)
	var forbidden, refused, create *auditv1.Event
	for _, e := range events() {
		switch {
		case e.ImpersonatedUser != nil && e.Stage == auditv1.StageResponseComplete:
			forbidden = &e
		case e.ResponseStatus != nil && e.ResponseStatus.Code == 401:
			refused = &e
		case e.Verb == "create" && e.ObjectRef != nil && e.ObjectRef.Resource == "configmaps" && e.Stage == auditv1.StageResponseComplete && e.User.Username == "admin":
			create = &e
		}
	}
	if forbidden == nil || forbidden.User.Username != "admin" || forbidden.ImpersonatedUser.Username != "mallory" || forbidden.ResponseStatus.Code != 403 ||
		forbidden.ResponseStatus.Reason != "Forbidden" || forbidden.Annotations["authorization.k8s.io/decision"] != "forbid" || forbidden.ObjectRef.Resource != "secrets" {
		t.Errorf("%+v", forbidden)
	}
	if refused == nil || refused.Stage != auditv1.StageResponseStarted || refused.User.Username != "" || refused.ResponseStatus.Message != "Authentication failed, attempted: bearer" {
		t.Errorf("%+v", refused)
	}
	if create == nil || create.ResponseStatus.Code != 201 || create.Annotations["authorization.k8s.io/decision"] != "allow" || create.RequestObject == nil || create.ResponseObject == nil ||
		!bytes.Contains(create.ResponseObject.Raw, []byte(made.Name)) || !bytes.Contains(create.RequestObject.Raw, []byte(`"a":"b"`)) {
		t.Errorf("%+v", create)
	}
}

func TestAWatchIsWrittenDownWhenItStarts(t *testing.T) {
	o, events := audited(t, millrace.Options{Controllers: []string{}, NoScheduler: true}, "- {level: Metadata, verbs: [watch], users: [admin]}")
	c := start(t, o)
	w, err := c.admin.CoreV1().Secrets("default").Watch(c.ctx, metav1.ListOptions{})
	c.must(err)
	var stages []string
	for _, e := range events() {
		stages = append(stages, string(e.Stage))
	}
	if strings.Join(stages, " ") != "RequestReceived ResponseStarted" {
		t.Errorf("%v", stages)
	}
	w.Stop()
}

func TestTheEncodingChangesNothingOfWhatIsWrittenDown(t *testing.T) {
	const rules = "- {level: None, users: ['system:kube-controller-manager']}\n- {level: RequestResponse, resources: [{group: '', resources: [configmaps]}]}\n- {level: None}"
	o, events := audited(t, millrace.Options{Controllers: []string{}, NoScheduler: true}, rules)
	c := start(t, o)
	all := func() *rest.Request {
		return c.admin.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/configmaps")
	}
	written := func(kind types.PatchType, name, body string) {
		t.Helper()
		p := c.admin.CoreV1().RESTClient().Patch(kind).AbsPath("/api/v1/namespaces/default/configmaps/"+name).Param("fieldManager", "audited")
		_, err := p.SetHeader("Accept", "application/yaml").Body([]byte(body)).DoRaw(c.ctx)
		c.must(err)
	}
	written(types.ApplyYAMLPatchType, "marked", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: marked\ndata: {k: secret}\n")
	written(types.MergePatchType, "marked", `{"data":{"n":"secret"}}`+strings.Repeat(" ", 2<<20))
	const protobuf, metadata = "application/vnd.kubernetes.protobuf", ";g=meta.k8s.io;v=v1"
	read := []struct{ name, accept string }{
		{"", protobuf + ";as=PartialObjectMetadataList" + metadata}, {"marked", protobuf + ";as=PartialObjectMetadata" + metadata},
	}
	for _, accept := range []string{"application/json", "application/yaml", protobuf} {
		read = append(read, struct{ name, accept string }{"", accept}, struct{ name, accept string }{"marked", accept})
	}
	for _, r := range read {
		_, err := all().Suffix(r.name).SetHeader("Accept", r.accept).DoRaw(c.ctx)
		c.must(err)
	}
	n := 0
	for _, e := range events() {
		if e.Stage != auditv1.StageResponseComplete || e.User.Username != "admin" {
			continue
		}
		n++
		if e.ResponseObject == nil || !bytes.Contains(e.ResponseObject.Raw, []byte(`"marked"`)) || e.Annotations["audit.k8s.io/truncated"] != "" {
			t.Errorf("%s %s by %s: the answer is not written down", e.Verb, e.RequestURI, e.UserAgent)
		}
		if e.Verb == "patch" && (e.RequestObject == nil || !bytes.Contains(e.RequestObject.Raw, []byte(`"secret"`))) {
			t.Errorf("%s %s: what was sent is not written down", e.Verb, e.RequestURI)
		}
	}
	if n != len(read)+2 {
		t.Errorf("%d requests are written down", n)
	}
}
