package page_test

import (
	"flag"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace"
)

var picture = flag.String("picture", "", "file for the picture of the page in the documents")

// mostPicture is how large the picture in the documents may be.
const mostPicture = 200 << 10

// deployment is one whose pods a hollow node runs.
func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: "example.com/" + name + ":1"}}},
		},
	}}
}

func TestAWholeClusterIsShownWithNothingSidewaysOnASmallScreen(t *testing.T) {
	o := millrace.Options{Data: t.TempDir(), Nodes: 3, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30}}
	c := start(t, o)
	apps := clientset(t, c).AppsV1().Deployments("default")
	for name, replicas := range map[string]int32{"web": 6, "cart": 3, "search": 2} {
		if _, err := apps.Create(t.Context(), deployment(name, replicas), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, browser(t))
	b.visit(link(t, c, ""))
	b.shows(".home", "3 ready")
	b.shows(".home", "Deployment web")
	b.at("#/list/core/v1/pods")
	b.sees("document.querySelectorAll('.line').length === 11")
	image := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"example.com/web:2"}]}}}}`)
	if _, err := apps.Patch(t.Context(), "web", types.StrategicMergePatchType, image, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.at("#/object/apps/v1/deployments/default/web?tab=History")
	b.shows(".version", "example.com/web:1 → example.com/web:2")
	for _, place := range []string{"#/", "#/list/core/v1/pods", "#/object/apps/v1/deployments/default/web", "#/object/apps/v1/deployments/default/web?tab=History"} {
		b.at(place)
		b.picture(320, 640, "dark")
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 320 {
			t.Errorf("%s is %d wide on a screen of 320", place, wide)
		}
	}
	b.at("#/object/apps/v1/deployments/default/web?tab=History")
	png := b.picture(1280, 720, "light")
	if len(png) > mostPicture {
		t.Errorf("the picture has %d bytes", len(png))
	}
	if *picture != "" {
		if err := os.WriteFile(*picture, png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
