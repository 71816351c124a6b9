// Loses the answer to the second EndTxn, and shows the faults: go run control.go http://127.0.0.1:8080
package main

import (
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	faults := os.Args[1] + "/faults"
	fault := `{"name": "lost", "do": "lose_answer", "on": {"request": "EndTxn", "nth": 2}}`
	added, err := http.Post(faults, "application/json", strings.NewReader(fault))
	if err != nil || added.StatusCode != 200 {
		panic("the fault was refused")
	}
	shown, err := http.Get(faults)
	if err != nil {
		panic(err)
	}
	io.Copy(os.Stdout, shown.Body)
}
