package job

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
)

func huge(edit func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{Spec: batchv1.JobSpec{
		CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(math.MaxInt32)), Parallelism: new(int32(math.MaxInt32)),
		BackoffLimit: new(int32(math.MaxInt32)),
	}}
	if edit != nil {
		edit(j)
	}
	return j
}

func TestAJobOfTheLargestSizeIsPlannedLikeAnyOther(t *testing.T) {
	now := time.Date(2026, 7, 14, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		job  *batchv1.Job
		want []int // the first and the last index of the pods to create
	}{
		"nothing is done": {huge(nil), []int{0, atOnce - 1}},
		"almost everything is done": {huge(func(j *batchv1.Job) {
			j.Status.CompletedIndexes = "0-2147483640,2147483642-2147483644"
		}), []int{2147483641, 2147483646}},
		"almost everything has failed": {huge(func(j *batchv1.Job) {
			j.Spec.BackoffLimitPerIndex, j.Status.FailedIndexes = new(int32(1)), new("0-2147483644")
		}), []int{2147483645, 2147483646}},
		"without indexes":     {huge(func(j *batchv1.Job) { j.Spec.CompletionMode = nil }), []int{noIndex, noIndex}},
		"without completions": {huge(func(j *batchv1.Job) { j.Spec.CompletionMode, j.Spec.Completions = nil, nil }), []int{noIndex, noIndex}},
	} {
		p := assess(c.job, nil, pause{}, now)
		if n := len(p.create); n == 0 || n > atOnce || p.create[0] != c.want[0] || p.create[n-1] != c.want[1] {
			t.Errorf("%s: it makes %d pods: %v", name, n, p.create)
		}
	}
}

func TestADeadlineWithoutEndDoesNotEndAJob(t *testing.T) {
	now := time.Date(2026, 7, 14, 12, 0, 0, 0, time.UTC)
	for _, deadline := range []int64{10_000_000_000, math.MaxInt64} {
		p := assess(huge(func(j *batchv1.Job) {
			j.Spec.ActiveDeadlineSeconds, j.Status.StartTime = &deadline, &metav1.Time{Time: now.Add(-time.Hour)}
		}), nil, pause{}, now)
		if p.finishing() {
			t.Errorf("a deadline of %d seconds has passed after an hour", deadline)
		}
	}
}

func TestAnnotationsThatCannotBeRightDoNotStopAJob(t *testing.T) {
	for _, text := range []string{"-5", "-9223372036854775808", "9223372036854775807", "many"} {
		pod := &podview.Pod{}
		pod.Annotations = map[string]string{indexKey: "0", failureKey: text, ignoredKey: text}
		pod.Phase = "Failed"
		p := assess(huge(func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = new(int32(6)) }), []*podview.Pod{pod}, pause{}, time.Now())
		if len(p.create) == 0 {
			t.Errorf("%q: no pods are made", text)
		}
	}
}

func TestSetsOfIndexesAreSets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var x, y indexes
		inX, inY := map[int]bool{}, map[int]bool{}
		for range random.IntN(40) {
			i, j := random.IntN(30), random.IntN(30)
			x, y = x.with(i), y.with(j)
			inX[i], inY[j] = true, true
		}
		both := 0
		for i := range 30 {
			if x.has(i) != inX[i] {
				t.Fatalf("%v has %d: %t", x, i, x.has(i))
			}
			if inX[i] && inY[i] {
				both++
			}
		}
		if x.len() != len(inX) || x.in(y) != both || y.in(x) != both {
			t.Fatalf("%v has %d indexes, and %d of %v; expected %d and %d", x, x.len(), x.in(y), y, len(inX), both)
		}
		if again := parseIndexes(x.String(), 30); !slices.Equal(again, x) {
			t.Fatalf("%v is read as %v", x, again)
		}
		for i := 1; i < len(x); i++ {
			if x[i].first <= x[i-1].last+1 {
				t.Fatalf("%v has no gaps", x)
			}
		}
	}
}

func TestWhatIsNotASetOfIndexesIsSkipped(t *testing.T) {
	for text, want := range map[string]string{"5-3,7": "7", "4,2,6": "4,6", "1-3,2-9,5": "1-3,5", "-4,1": "1", "0-99999999999999999999": "", "8-2147483647": "8,9"} {
		if got := parseIndexes(text, 10).String(); got != want {
			t.Errorf("%q is read as %q, expected %q", text, got, want)
		}
	}
}

// A rule of a success policy may have as many spans as its length allows, and as many may be completed.
func TestManySpansAreComparedQuickly(t *testing.T) {
	var text strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&text, "%d,", 2*i)
	}
	spans := strings.TrimSuffix(text.String(), ",")
	j := huge(func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{}
		for range 20 {
			j.Spec.SuccessPolicy.Rules = append(j.Spec.SuccessPolicy.Rules, batchv1.SuccessPolicyRule{SucceededIndexes: &spans, SucceededCount: new(int32(math.MaxInt32))})
		}
	})
	if _, ok := succeededBy(j, parseIndexes(spans, math.MaxInt32)); ok { // 3 billion comparisons if each span met each
		t.Error("a rule is fulfilled that asks for more than there are")
	}
}
