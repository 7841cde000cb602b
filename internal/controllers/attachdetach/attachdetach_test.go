package attachdetach_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/attachdetach"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/persistentvolume"
	"github.com/millrace/millrace/millracetest"
)

const driver = "disks.example.com"

// world has two nodes, and a claim "c" bound to the volume "v" of a driver.
type world struct {
	*testing.T
	*looptest.Server
}

func inWorld(t *testing.T, f func(w world)) {
	t.Helper()
	withOptions(t, attachdetach.Options{}, f)
}

func withOptions(t *testing.T, o attachdetach.Options, f func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{t, looptest.New(t, millracetest.API(t))}
		looptest.Namespace(w.Server, "a")
		for _, name := range []string{"n", "m"} {
			looptest.Create(w.Server, "nodes", "", &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			})
		}
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		class := ""
		looptest.Create(w.Server, "persistentvolumes", "", &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
		}})
		looptest.Create(w.Server, "persistentvolumeclaims", "a", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: size},
		}})
		looptest.Start(t, w.Clients(), o.Entry(), persistentvolume.Options{}.Entry())
		w.pass(time.Minute)
		f(w)
	})
}

func (w world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w world) pod(name, node string) {
	looptest.Create(w.Server, "pods", "a", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: node, Containers: looptest.Containers(), Volumes: []corev1.Volume{{
			Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
		}},
	}})
	w.pass(10 * time.Second)
}

// attached compares the nodes that have an attachment.
func (w world) attached(want string) []*storagev1.VolumeAttachment {
	w.Helper()
	var nodes []string
	all := looptest.All[storagev1.VolumeAttachment](w.Server, "volumeattachments")
	for _, a := range all {
		nodes = append(nodes, a.Spec.NodeName)
	}
	if got := strings.Join(nodes, " "); got != want {
		w.Errorf("attached to %q, want %q", got, want)
	}
	return all
}

func (w world) node() *corev1.Node {
	n, err := w.Kube.CoreV1().Nodes().Get(w.Context(), "n", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return n
}

const unique = corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^h")

func TestAVolumeIsAttachedAsLongAsAPodUsesIt(t *testing.T) {
	inWorld(t, func(w world) {
		w.attached("")
		w.pod("p", "n")
		a := w.attached("n")[0]
		if a.Spec.Attacher != driver || *a.Spec.Source.PersistentVolumeName != "v" || !strings.HasPrefix(a.Name, "csi-") || len(a.Name) != 68 {
			w.Errorf("the attachment is %+v", a)
		}
		looptest.Edit(w.Server, "volumeattachments", "", a.Name, func(a *storagev1.VolumeAttachment) { a.Status.Attached = true })
		w.pass(10 * time.Second)
		if all := w.node().Status.VolumesAttached; len(all) != 1 || all[0].Name != unique {
			w.Errorf("the node is told of %v", all)
		}
		looptest.Edit(w.Server, "nodes", "", "n", func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{unique} })
		if err := w.Kube.CoreV1().Pods("a").Delete(w.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
			w.Fatal(err)
		}
		w.pass(time.Hour)
		w.attached("n") // the node still uses it
		looptest.Edit(w.Server, "nodes", "", "n", func(n *corev1.Node) { n.Status.VolumesInUse = nil })
		w.pass(10 * time.Second)
		w.attached("")
		if all := w.node().Status.VolumesAttached; len(all) != 0 {
			w.Errorf("the node is told of %v", all)
		}
	})
}

func TestAttachmentsOfOthersAreLeftAlone(t *testing.T) {
	inWorld(t, func(w world) {
		nothing := "a-volume-that-is-not-there"
		looptest.Create(w.Server, "volumeattachments", "", &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "somebodys"},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &nothing}},
		})
		w.pass(time.Hour)
		w.attached("n")
	})
}

func TestAVolumeOfOneNodeIsNotAttachedToAnother(t *testing.T) {
	inWorld(t, func(w world) {
		w.pod("p", "n")
		w.pod("q", "m")
		w.attached("n")
		told := false
		for _, e := range looptest.All[corev1.Event](w.Server, "events") {
			told = told || e.Reason == "FailedAttachVolume" && e.InvolvedObject.Name == "q" && e.Message == `Multi-Attach error for volume "v" Volume is already used by pod(s) p`
		}
		if !told {
			w.Error("nobody is told why the pod waits")
		}
		if err := w.Kube.CoreV1().Pods("a").Delete(w.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
			w.Fatal(err)
		}
		w.pass(time.Minute)
		w.attached("m")
	})
}

// fail lets a node fail that runs a pod with the volume, and deletes the pod.
func (w world) fail(node string) {
	w.pod("p", node)
	looptest.Edit(w.Server, "nodes", "", node, func(n *corev1.Node) {
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{unique}
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, metav1.Now()
	})
	if err := w.Kube.CoreV1().Pods("a").Delete(w.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
		w.Fatal(err)
	}
}

func TestANodeThatIsNotReadyLosesItsVolumesAfterAWhile(t *testing.T) {
	metrics := prometheus.NewRegistry()
	const forced = "attach_detach_controller_attachdetach_controller_forced_detaches timeout"
	withOptions(t, attachdetach.Options{Metrics: attachdetach.NewMetrics(meter.New(metrics))}, func(w world) {
		w.fail("n")
		w.pass(5 * time.Minute)
		w.attached("n")
		if n := looptest.Measured(t, metrics)[forced]; n != 0 {
			t.Errorf("before it is detached, %v volumes count as forced", n)
		}
		w.pass(2 * time.Minute)
		w.attached("")
		if n := looptest.Measured(t, metrics)[forced]; n != 1 {
			t.Errorf("when it was detached, %v volumes count as forced", n)
		}
	})
}

func TestADriverCanDoWithoutAttachments(t *testing.T) {
	inWorld(t, func(w world) {
		no := false
		looptest.Create(w.Server, "csidrivers", "", &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no}})
		w.pod("p", "n")
		w.attached("")
	})
}

func TestANodeKeepsItsVolumesIfTheyAreNeverDetachedByForce(t *testing.T) {
	withOptions(t, attachdetach.Options{NeverForce: true}, func(w world) {
		w.fail("n")
		w.pass(10 * time.Minute)
		w.attached("n")
		looptest.Edit(w.Server, "nodes", "", "n", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
		})
		w.pass(2 * time.Minute)
		w.attached("")
	})
}
