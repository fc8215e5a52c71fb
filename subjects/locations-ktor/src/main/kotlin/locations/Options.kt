package locations

class Options(val port: Int, val engine: Engine)

private const val PORT = "--port"
private const val ENGINE = "--engine"

private val PORTS = 1..65535

/** What [args] say, in pairs of a name and its value. */
fun optionsOf(args: List<String>): Options {
    val values = args.chunked(2).associate { it.first() to it.drop(1).firstOrNull() }
    (values.keys - setOf(PORT, ENGINE)).firstOrNull()?.let {
        throw Refusal("$it is not known: the arguments are $PORT and $ENGINE.")
    }
    return Options(
        port = values[PORT]?.toIntOrNull()?.takeIf { it in PORTS }
            ?: throw Refusal(
                "$PORT is missing or malformed: " +
                    "give it a number from ${PORTS.first} to ${PORTS.last}.",
            ),
        engine = choice(ENGINE, values[ENGINE], Engine.entries.associateBy { it.word }),
    )
}

private fun <T> choice(argument: String, word: String?, choices: Map<String, T>): T =
    choices[word] ?: throw Refusal(
        "$argument is missing or not known: give it one of ${choices.keys.joinToString()}.",
    )
