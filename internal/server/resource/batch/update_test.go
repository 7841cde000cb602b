package batch

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

const template = `"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}`

func made(t *testing.T, k *resource.Kind, spec string) resource.Object {
	t.Helper()
	o, err := resourcetest.Decode(k.Faces[0], []byte(`{"metadata": {"name": "x", "namespace": "n"}, "spec": {`+spec+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestJobsAreRefusedInKubernetesWords(t *testing.T) {
	for spec, want := range map[string][]string{
		template:                                 nil,
		`"completionMode": "Some", ` + template:  {`FieldValueNotSupported spec.completionMode: Unsupported value: "Some": supported values: "NonIndexed", "Indexed"`},
		`"backoffLimitPerIndex": 1, ` + template: {`FieldValueInvalid spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode`},
		`"maxFailedIndexes": 1, "completionMode": "Indexed", ` + template:    {`FieldValueRequired spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified`},
		`"podFailurePolicy": {"rules": [{"action": "Ignore"}]}, ` + template: {`FieldValueInvalid spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required`},
		`"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 0, 3]}}]}, ` + template: {
			`FieldValueInvalid spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator`,
			`FieldValueDuplicate spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3`,
			`FieldValueInvalid spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered`,
		},
		`"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}, "podReplacementPolicy": "TerminatingOrFailed", ` + template: {
			`FieldValueNotSupported spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"`,
		},
		`"successPolicy": {"rules": [{"succeededIndexes": "0-2,1"}]}, "completionMode": "Indexed", "completions": 3, "parallelism": 1, ` + template: {
			`FieldValueInvalid spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-2,1": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1`,
		},
		`"managedBy": "me", ` + template: {`FieldValueInvalid spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")`},
	} {
		got := resourcetest.Causes(resourcetest.Create(Jobs().Faces[0], made(t, Jobs(), spec)))
		if !slices.Equal(got, want) {
			t.Errorf("%s\nwant %q\ngot  %q", spec, want, got)
		}
	}
}

func TestJobsThatReplaceFailedPodsOnlyDoSoByDefault(t *testing.T) {
	j := made(t, Jobs(), `"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}, `+template).(*batchv1.Job)
	if *j.Spec.PodReplacementPolicy != batchv1.Failed || j.Spec.PodFailurePolicy.Rules[0].OnPodConditions[0].Status != corev1.ConditionTrue {
		t.Errorf("got %+v", j.Spec)
	}
	if j = made(t, Jobs(), `"parallelism": 2, `+template).(*batchv1.Job); j.Spec.Completions != nil {
		t.Error("a job with a parallelism of its own ends when one pod has succeeded")
	}
}

func TestJobsChangeOnlyInWhatTheyMay(t *testing.T) {
	for name, c := range map[string]struct {
		spec   string
		before func(*batchv1.Job)
		change func(*batchv1.Job)
		want   string
	}{
		"suspend":     {spec: template, change: func(j *batchv1.Job) { j.Spec.Suspend = new(true) }},
		"parallelism": {spec: template, change: func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(5)) }},
		"completions": {spec: template, change: func(j *batchv1.Job) { j.Spec.Completions = new(int32(5)) },
			want: "FieldValueInvalid spec.completions: Invalid value: 5: field is immutable"},
		"elastic": {spec: `"completionMode": "Indexed", "completions": 2, "parallelism": 2, ` + template, change: func(j *batchv1.Job) {
			j.Spec.Completions, j.Spec.Parallelism = new(int32(5)), new(int32(5))
		}},
		"not so elastic": {spec: `"completionMode": "Indexed", "completions": 2, "parallelism": 2, ` + template, change: func(j *batchv1.Job) {
			j.Spec.Completions = new(int32(5))
		}, want: "FieldValueInvalid spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"},
		"image": {spec: template, change: func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "app:2" },
			want: `FieldValueInvalid spec.template: Invalid value: {"labels":{`},
		"where a running job goes": {spec: template, change: sendTo, want: `FieldValueInvalid spec.template: Invalid value: {`},
		"where a waiting job goes": {spec: `"suspend": true, ` + template, change: sendTo},
		"where a job that waits again goes": {spec: `"suspend": true, ` + template, change: sendTo, want: `FieldValueInvalid spec.template: Invalid value: {`,
			before: func(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: time.Now()} }},
	} {
		t.Run(name, func(t *testing.T) {
			old := made(t, Jobs(), c.spec).(*batchv1.Job)
			if errs := resourcetest.Create(Jobs().Faces[0], old); len(errs) > 0 {
				t.Fatal(errs)
			}
			if c.before != nil {
				c.before(old)
			}
			j := old.DeepCopy()
			c.change(j)
			got := resourcetest.Causes(resourcetest.Update(Jobs(), Jobs().Main, j, old))
			if len(got) > 1 || (len(got) == 1) != (c.want != "") || c.want != "" && !strings.HasPrefix(got[0], c.want) {
				t.Errorf("want %q\ngot  %q", c.want, got)
			}
		})
	}
}

func sendTo(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"} }

func TestJobsSelectTheirOwnPods(t *testing.T) {
	j := made(t, Jobs(), `"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}`).(*batchv1.Job)
	if errs := resourcetest.Create(Jobs().Faces[0], j); len(errs) > 0 {
		t.Fatal(errs)
	}
	if len(j.Spec.Template.Labels) != 1 || len(j.Spec.Selector.MatchLabels) != 1 {
		t.Errorf("a selector by hand was changed: %v", j.Spec.Selector)
	}
}

func TestJobsTellTheirState(t *testing.T) {
	condition := func(c batchv1.JobConditionType) batchv1.Job {
		return batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: c, Status: corev1.ConditionTrue}}}}
	}
	for want, j := range map[string]batchv1.Job{
		"Running": {}, "Complete": condition(batchv1.JobComplete), "Failed": condition(batchv1.JobFailed),
		"Suspended": condition(batchv1.JobSuspended), "FailureTarget": condition(batchv1.JobFailureTarget),
		"SuccessCriteriaMet": condition(batchv1.JobSuccessCriteriaMet),
		"Terminating":        {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}},
	} {
		if got := jobState(&j); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestJobsEndInOrder(t *testing.T) {
	old := made(t, Jobs(), template).(*batchv1.Job)
	j := old.DeepCopy()
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	got := resourcetest.Causes(resourcetest.Update(Jobs(), Jobs().Views["status"], j, old))
	want := []string{
		"FieldValueRequired status.completionTime: Required value: completionTime is required for Complete jobs",
		"FieldValueInvalid status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
		"FieldValueRequired status.startTime: Required value: startTime is required for finished job",
	}
	if !slices.Equal(got, want) {
		t.Errorf("want %q\ngot  %q", want, got)
	}
	now := metav1.Now()
	j.Status.StartTime, j.Status.CompletionTime = &now, &now
	j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue})
	if errs := resourcetest.Update(Jobs(), Jobs().Views["status"], j, old); len(errs) > 0 {
		t.Error(errs)
	}
	again := j.DeepCopy()
	again.Status = batchv1.JobStatus{}
	if got := resourcetest.Causes(resourcetest.Update(Jobs(), Jobs().Views["status"], again, j)); len(got) != 1 || !strings.HasSuffix(got[0], "cannot disable the terminal Complete=True condition") {
		t.Errorf("got %q", got)
	}
}
