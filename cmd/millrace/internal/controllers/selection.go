package controllers

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/loop"
)

// Selection parses --controllers. An empty list runs none.
func Selection(list string) ([]string, error) {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
	if words == nil {
		return []string{}, nil
	}
	entries := controllers.All(controllers.Options{})
	if _, err := loop.Select(entries, words); err != nil {
		all, _ := loop.Names(entries)
		return nil, fmt.Errorf("--controllers: %w: %s", err, strings.Join(all, ", "))
	}
	return words, nil
}
