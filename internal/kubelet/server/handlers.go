package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onPod calls handle with the pod and container of the path, if they exist.
func (s *Server) onPod(handle func(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, container string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, container := r.PathValue("pod"), r.PathValue("container")
		pod, ok := s.Node.Pod(r.PathValue("namespace"), name)
		if uid := r.PathValue("uid"); ok && uid != "" && string(pod.UID) != uid {
			ok = false
		}
		switch {
		case !ok:
			http.Error(w, fmt.Sprintf("pod %q does not exist", name), http.StatusNotFound)
		case container != "" && !has(pod, container):
			http.Error(w, fmt.Sprintf("container %q not found in pod %q", container, name), http.StatusNotFound)
		default:
			handle(w, r, pod, container)
		}
	}
}

func has(pod *corev1.Pod, name string) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if slices.ContainsFunc(list, func(c corev1.Container) bool { return c.Name == name }) {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, pod := range s.Node.Pods() {
		list.Items = append(list.Items, *pod)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&list) // an error means that the client has disconnected
}

func answer(w http.ResponseWriter, err error) {
	var problem *Problem
	if errors.As(err, &problem) {
		http.Error(w, problem.Message, problem.Status)
		return
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
