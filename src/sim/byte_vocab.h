/* sim/byte_vocab.h: the vocabulary of the runners without a model. An id below 256 is that byte; three control tokens
 * follow, under the names that the ChatML template uses. A tokenizer for it needs no file: text is its UTF-8 bytes,
 * control tokens are added by name. */
#ifndef HEADWAY_SIM_BYTE_VOCAB_H
#define HEADWAY_SIM_BYTE_VOCAB_H

enum {
    BYTE_VOCAB_END_OF_TEXT = 256, /* <|endoftext|>: also begin of text and padding; stops */
    BYTE_VOCAB_IM_START = 257,    /* <|im_start|> */
    BYTE_VOCAB_IM_END = 258,      /* <|im_end|>: stops; what the runners end a reply with */
    BYTE_VOCAB_SIZE = 259,
};

#define BYTE_VOCAB_END_OF_TEXT_NAME "<|endoftext|>"
#define BYTE_VOCAB_IM_START_NAME "<|im_start|>"
#define BYTE_VOCAB_IM_END_NAME "<|im_end|>"

#endif
