/*
Translates with a SavedModel as stock TensorFlow Serving does: without Python,
and with XLA compilation disabled.

    load_with_c_api LIBRARY MODEL TEXT TRANSLATIONS SCORES < texts

LIBRARY       shared library that has the operations of the tokenizer
MODEL         folder of the SavedModel
TEXT          name of the input tensor, string [B], as in the SignatureDef
TRANSLATIONS  name of an output tensor, string [B, n]
SCORES        name of an output tensor, float32 [B, n]

Reads one text per line. Prints one line per text: for each translation its
bytes in hexadecimal, a colon and its score, separated by spaces. An error is
printed to standard error, and the exit code is 1.
*/

#define _POSIX_C_SOURCE 200809L /* getline */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

/* tensorflow::DisableXlaCompilation() of C++, which Serving calls too. */
void _ZN10tensorflow21DisableXlaCompilationEv(void);

static TF_Status *status;

static void fail(const char *message) {
  fprintf(stderr, "%s\n", message);
  exit(1);
}

static void check_status(void) {
  if (TF_GetCode(status) != TF_OK) fail(TF_Message(status));
}

/* Returns the lines of standard input, which may contain NUL, as a tensor. */
static TF_Tensor *read_texts(void) {
  TF_TString *texts = NULL;
  int64_t count = 0;
  char *line = NULL;
  size_t capacity = 0;
  ssize_t length;
  while ((length = getline(&line, &capacity, stdin)) >= 0) {
    if (length && line[length - 1] == '\n') length--;
    texts = realloc(texts, (count + 1) * sizeof *texts);
    if (!texts) fail("Out of memory");
    TF_StringInit(&texts[count]);
    TF_StringCopy(&texts[count++], line, length);
  }
  free(line);
  size_t size = count * sizeof *texts;
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, &count, 1, size);
  /* A TF_TString may be moved: its long texts are on the heap. */
  if (size) memcpy(TF_TensorData(tensor), texts, size);
  free(texts);
  return tensor;
}

/* Returns the output "operation:index" of a graph. */
static TF_Output find(TF_Graph *graph, const char *name) {
  char operation[256] = "";
  int index = 0;
  sscanf(name, "%255[^:]:%d", operation, &index);
  TF_Output output = {TF_GraphOperationByName(graph, operation), index};
  if (!output.oper) fail("The graph has no such tensor");
  return output;
}

static void print(const TF_Tensor *translations, const TF_Tensor *scores) {
  const TF_TString *text = TF_TensorData(translations);
  const float *score = TF_TensorData(scores);
  int64_t columns = TF_Dim(translations, 1);
  for (int64_t i = 0; i < TF_TensorElementCount(translations); i++) {
    const char *bytes = TF_StringGetDataPointer(&text[i]);
    for (size_t j = 0; j < TF_StringGetSize(&text[i]); j++)
      printf("%02x", (unsigned char)bytes[j]);
    printf(":%.9g%c", score[i], (i + 1) % columns ? ' ' : '\n');
  }
}

int main(int argc, char **argv) {
  if (argc != 6) fail("Expected: LIBRARY MODEL TEXT TRANSLATIONS SCORES");
  status = TF_NewStatus();
  _ZN10tensorflow21DisableXlaCompilationEv();
  TF_LoadLibrary(argv[1], status);
  check_status();

  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Session *session = TF_LoadSessionFromSavedModel(
      options, NULL, argv[2], tags, 1, graph, NULL, status);
  check_status();

  TF_Output input = find(graph, argv[3]);
  TF_Output outputs[] = {find(graph, argv[4]), find(graph, argv[5])};
  TF_Tensor *text = read_texts();
  TF_Tensor *found[2] = {NULL, NULL};
  TF_SessionRun(session, NULL, &input, &text, 1, outputs, found, 2, NULL, 0,
                NULL, status);
  check_status();
  print(found[0], found[1]);

  TF_DeleteTensor(found[0]);
  TF_DeleteTensor(found[1]);
  TF_DeleteTensor(text);
  TF_CloseSession(session, status);
  check_status();
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
