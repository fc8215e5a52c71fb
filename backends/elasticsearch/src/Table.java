import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A file of tab-separated values, whose first line names its columns. */
final class Table {
    private Table() {}

    static List<Map<String, String>> read(Path file) throws IOException {
        List<String> lines = Files.readAllLines(file);
        String[] columns = lines.get(0).split("\t");
        List<Map<String, String>> rows = new ArrayList<>();
        for (String line : lines.subList(1, lines.size())) {
            rows.add(row(columns, line));
        }
        return rows;
    }

    private static Map<String, String> row(String[] columns, String line) {
        // -1 keeps the empty values at the end.
        String[] values = line.split("\t", -1);
        if (values.length != columns.length) {
            throw new IllegalArgumentException(
                values.length + " values for " + columns.length + " columns: " + line);
        }
        Map<String, String> row = new LinkedHashMap<>();
        for (int i = 0; i < columns.length; i++) {
            row.put(columns[i], values[i]);
        }
        return row;
    }
}
