package core

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

// recordedPod returns the pod of the story "verbs", and the server's error for a changed hostname.
func recordedPod(t *testing.T) (pod *corev1.Pod, refusal string) {
	t.Helper()
	for _, s := range resourcetest.Story(t, "verbs") {
		switch s.Name {
		case "pod":
			pod = &corev1.Pod{}
			text := strings.ReplaceAll(string(s.Want.Body), `"TIME"`, `"2026-01-02T03:04:05Z"`)
			if err := json.Unmarshal([]byte(text), pod); err != nil {
				t.Fatal(err)
			}
		case "pod spec is immutable":
			var status struct {
				Details struct{ Causes []struct{ Message string } }
			}
			if err := json.Unmarshal(s.Want.Body, &status); err != nil {
				t.Fatal(err)
			}
			refusal = status.Details.Causes[0].Message
		}
	}
	return pod, refusal
}

func TestRefusedPodUpdateShowsTheChangeAsRecorded(t *testing.T) {
	old, want := recordedPod(t)
	p := old.DeepCopy()
	p.Spec.Hostname = "x"
	errs := resourcetest.Update(Pods(), Pods().Main, p, old)
	if len(errs) != 1 {
		t.Fatalf("got %v", errs)
	}
	if got := errs[0].ErrorBody(); got != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
}

func somePod() *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.Namespace = "p", "n"
	p.Spec.NodeName = "node"
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1"}}
	p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "app:1"}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(5))}}
	p.Status.QOSClass = corev1.PodQOSBestEffort
	Pods().Default(p)
	return p
}

func TestANegativeGracePeriodBecomesTheShortest(t *testing.T) {
	old := somePod()
	grace(1)(old)
	p := old.DeepCopy()
	grace(-1)(p)
	podRules.PrepareUpdate(t.Context(), p, old)
	if g := *p.Spec.TerminationGracePeriodSeconds; g != 1 {
		t.Errorf("it is %d", g)
	}
}

func TestPodsChangeOnlyInWhatTheyMay(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*corev1.Pod)
		change func(*corev1.Pod)
		want   []string // how the errors begin
	}{
		"nothing":          {},
		"image":            {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:2"; p.Spec.InitContainers[0].Image = "app:2" }},
		"image to nothing": {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" }, want: []string{"FieldValueRequired spec.containers[0].image: ", "FieldValueRequired spec.containers[0].image: "}},
		"labels":           {change: func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }},
		"one container more": {change: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
		}, want: []string{"FieldValueForbidden spec.containers: Forbidden: pod updates may not add or remove containers"}},
		"env": {change: func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A"}} },
			want: []string{"FieldValueForbidden spec: Forbidden: pod updates may not change fields other than"}},
		"deadline":         {change: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) }},
		"shorter deadline": {before: deadline(9), change: deadline(5)},
		"longer deadline": {before: deadline(5), change: deadline(9),
			want: []string{"FieldValueInvalid spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value"}},
		"no deadline": {before: deadline(5), change: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil },
			want: []string{"FieldValueInvalid spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"}},
		"one toleration more": {change: func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "b", Operator: "Exists"})
		}},
		"longer toleration": {change: func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = new(int64(50)) }},
		"other toleration": {change: func(p *corev1.Pod) { p.Spec.Tolerations[0].Key = "b" },
			want: []string{"FieldValueForbidden spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"}},
		"grace of a negative": {before: grace(-1), change: grace(1)},
		"grace":               {change: grace(1), want: []string{"FieldValueForbidden spec: Forbidden: pod updates"}},
		"gate opened":         {before: gates("a", "b"), change: gates("b")},
		"gate closed": {before: gates("a"), change: gates("a", "b"),
			want: []string{"FieldValueForbidden spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'"}},
		"gated pod sent elsewhere": {before: gates("a"), change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }},
		"pod sent elsewhere": {change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
			want: []string{"FieldValueForbidden spec: Forbidden: pod updates"}},
		"mirror": {change: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
			want: []string{"FieldValueForbidden metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation"}},
	} {
		t.Run(name, func(t *testing.T) {
			old := somePod()
			if c.before != nil {
				c.before(old)
			}
			p := old.DeepCopy()
			if c.change != nil {
				c.change(p)
			}
			got := resourcetest.Causes(resourcetest.Update(Pods(), Pods().Main, p, old))
			if !slices.EqualFunc(c.want, got, func(w, g string) bool { return strings.HasPrefix(g, w) }) {
				t.Errorf("want %q\ngot  %q", c.want, got)
			}
		})
	}
}

func deadline(n int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &n }
}

func grace(n int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &n }
}

func gates(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Spec.SchedulingGates = "", nil
		for _, n := range names {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: n})
		}
	}
}

func TestEphemeralContainersAreAddedAndStay(t *testing.T) {
	view := Pods().Views["ephemeralcontainers"]
	old := somePod()
	p := old.DeepCopy()
	p.Spec.Hostname = "ignored"
	p.Labels = map[string]string{"ignored": "too"}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "sh"}}}
	if errs := resourcetest.Update(Pods(), view, p, old); len(errs) > 0 {
		t.Fatal(errs)
	}
	if p.Spec.Hostname != "" || p.Labels != nil || len(p.Spec.EphemeralContainers) != 1 {
		t.Errorf("the view changed more, or less, than ephemeral containers: %+v", p.Spec)
	}
	changed := p.DeepCopy()
	changed.Spec.EphemeralContainers[0].Image = "other"
	if got := resourcetest.Causes(resourcetest.Update(Pods(), view, changed, p)); len(got) != 1 || !strings.HasPrefix(got[0], `FieldValueForbidden spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be changed`) {
		t.Errorf("got %q", got)
	}
	gone := p.DeepCopy()
	gone.Spec.EphemeralContainers = nil
	if got := resourcetest.Causes(resourcetest.Update(Pods(), view, gone, p)); len(got) != 1 || !strings.HasPrefix(got[0], `FieldValueForbidden spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed`) {
		t.Errorf("got %q", got)
	}
}

func TestResizeChangesComputeAndNothingElse(t *testing.T) {
	view := Pods().Views["resize"]
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	old := somePod()
	old.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("1"), Limits: list("2")}
	p := old.DeepCopy()
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("500m"), Limits: list("1")}
	p.Spec.Containers[0].Image = "ignored"
	if errs := resourcetest.Update(Pods(), view, p, old); len(errs) > 0 {
		t.Fatal(errs)
	}
	if q := p.Spec.Containers[0].Resources.Limits.Cpu(); q.String() != "1" || p.Spec.Containers[0].Image != "app:1" {
		t.Errorf("limit %v, image %s", q, p.Spec.Containers[0].Image)
	}
	for want, r := range map[string]corev1.ResourceRequirements{
		"FieldValueForbidden spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed": {Requests: list("1")},
		"FieldValueForbidden spec: Forbidden: only cpu and memory resources are mutable": {Requests: list("1"), Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}},
	} {
		p := old.DeepCopy()
		p.Spec.Containers[0].Resources = r
		got := resourcetest.Causes(resourcetest.Update(Pods(), view, p, old))
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("want %q\ngot  %q", want, got)
		}
	}
}

func TestPodStatusKeepsWhatIsDecidedOnce(t *testing.T) {
	view := Pods().Views["status"]
	old := somePod()
	old.Spec.RestartPolicy = corev1.RestartPolicyNever
	old.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
	p := old.DeepCopy()
	p.Status.QOSClass = ""
	p.Spec.NodeName = "other"
	p.Status.PodIPs = []corev1.PodIP{{IP: "192.0.2.1"}}
	if errs := resourcetest.Update(Pods(), view, p, old); len(errs) > 0 {
		t.Fatal(errs)
	}
	if p.Status.QOSClass != corev1.PodQOSBestEffort || p.Status.PodIP != "192.0.2.1" || p.Spec.NodeName != "node" {
		t.Errorf("got %+v", p.Status)
	}
	for want, change := range map[string]func(*corev1.Pod){
		`FieldValueForbidden status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state`: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		},
		`FieldValueInvalid status.qosClass: Invalid value: "Guaranteed": field is immutable`: func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed },
		`FieldValueInvalid status.podIPs[0]: Invalid value: "x": must be a valid IP address`: func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "x"}} },
		`FieldValueInvalid status.conditions[0].Type: Invalid value: "a b": name part`:       func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: "a b"}} },
	} {
		p := old.DeepCopy()
		change(p)
		got := resourcetest.Causes(resourcetest.Update(Pods(), view, p, old))
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("want %q\ngot  %q", want, got)
		}
	}
}

func TestPodsThatRunNothingGoAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*corev1.Pod)
		requested *int64
		want      int64
	}{
		"as declared":        {want: 30},
		"as asked":           {requested: new(int64(5)), want: 5},
		"at once":            {requested: new(int64(0)), want: 0},
		"negative":           {requested: new(int64(-3)), want: 1},
		"not on a node":      {change: func(p *corev1.Pod) { p.Spec.NodeName = "" }, requested: new(int64(5)), want: 0},
		"succeeded":          {change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, want: 0},
		"failed":             {change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: 0},
		"declared, negative": {change: grace(-1), want: 1},
	} {
		p := somePod()
		if c.change != nil {
			c.change(p)
		}
		if got, graceful := Pods().Graceful(p, c.requested); got != c.want || !graceful {
			t.Errorf("%s: %d seconds, want %d", name, got, c.want)
		}
	}
}
